// What GGUF and tokenizer.json vocabularies share about special tokens.
#pragma once

#include <string_view>

#include "formats/vocabulary.h"

namespace banter::formats {

/** Id of the token spelled `text`, or -1. A linear search. */
int32_t find_token(const Vocabulary& vocabulary, std::string_view text);

/** Whether `text` is the name of a byte token, <0x00> to <0xFF>. */
bool is_byte_spelling(std::string_view text);

/** Completes `end_of_generation`: eos, eot, what is in it already, and every token spelled like a known end marker. Such
 *  tokens become control tokens, whatever the file calls them. */
void complete_end_of_generation(Vocabulary& vocabulary);

}  // namespace banter::formats
