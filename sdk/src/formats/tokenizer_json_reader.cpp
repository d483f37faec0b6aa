#include "formats/tokenizer_json_reader.h"

#include "formats/gguf_cursor.h"

namespace banter::formats {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;

// A handler of nlohmann's event parser. Two subtrees go straight into vectors, the rest becomes a tree.
class Handler final : public nlohmann::json_sax<Json> {
 public:
  TokenizerJson result;
  std::string error;

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool binary(binary_t&) override { return fail("binary values do not occur in JSON text"); }
  bool number_integer(number_integer_t v) override {
    if (place_ == Place::kVocab && depth_ == 3) return vocab_entry(v);
    return value(v);
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (place_ == Place::kVocab && depth_ == 3) return vocab_entry(v > INT32_MAX ? -1 : static_cast<int64_t>(v));
    return value(v);
  }
  bool string(string_t& v) override {
    if (place_ == Place::kMerges && depth_ == 3) return merge_line(v);
    if (place_ == Place::kMerges && depth_ == 4) return merge_part(v);
    return value(std::move(v));
  }
  bool key(string_t& v) override {
    key_ = std::move(v);
    return true;
  }

  bool start_object(size_t) override {
    if (++depth_ > kMaxDepth) return fail("it is nested too deeply");
    if (place_ == Place::kTree && depth_ == 3 && in_model_ && key_ == "vocab") {
      result.vocab_is_object = true;
      place_ = Place::kVocab;
      return true;
    }
    if (place_ != Place::kTree) return place_ == Place::kSkip || fail("model.vocab and model.merges hold no objects");
    return open(Json::object());
  }
  bool end_object() override {
    close();
    return true;
  }
  bool start_array(size_t) override {
    if (++depth_ > kMaxDepth) return fail("it is nested too deeply");
    if (place_ == Place::kTree && depth_ == 3 && in_model_ && key_ == "merges") {
      place_ = Place::kMerges;
      return true;
    }
    if (place_ == Place::kTree && depth_ == 3 && in_model_ && key_ == "vocab") {
      place_ = Place::kSkip;  // Unigram's list of pairs
      return true;
    }
    if (place_ == Place::kMerges && depth_ == 4) {
      parts_.clear();
      return true;
    }
    if (place_ != Place::kTree) return place_ == Place::kSkip || fail("model.vocab and model.merges hold no such list");
    return open(Json::array());
  }
  bool end_array() override {
    if (place_ == Place::kMerges && depth_ == 4) {
      if (parts_.size() != 2) return fail("a merge does not have two parts");
      result.merges.emplace_back(std::move(parts_[0]), std::move(parts_[1]));
      --depth_;
      return true;
    }
    close();
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("no JSON from byte " + std::to_string(position));
  }

 private:
  enum class Place { kTree, kVocab, kMerges, kSkip };

  bool fail(std::string message) {
    if (error.empty()) error = std::move(message);
    return false;
  }

  bool vocab_entry(int64_t id) {
    if (id < 0) return fail("the token " + quote_for_message(key_) + " has no valid id");
    result.vocab.emplace_back(std::move(key_), id);
    return true;
  }
  bool merge_line(const std::string& line) {
    if (line.starts_with("#version")) return true;
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      return fail("the merge " + quote_for_message(line) + " does not have two parts");
    result.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return true;
  }
  bool merge_part(std::string& part) {
    if (parts_.size() >= 2) return fail("a merge does not have two parts");
    parts_.push_back(std::move(part));
    return true;
  }

  bool value(Json v) {
    if (place_ == Place::kSkip) return true;
    if (place_ != Place::kTree) return fail("model.vocab or model.merges holds a value of the wrong kind");
    return put(std::move(v)) != nullptr;
  }
  // Adds a value to the innermost open container. Pointers into the tree stay valid: only the innermost one grows.
  Json* put(Json v) {
    if (open_.empty()) {
      result.rest = std::move(v);
      return &result.rest;
    }
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(v));
    parent.push_back(std::move(v));
    return &parent.back();
  }
  bool open(Json container) {
    if (depth_ == 2) in_model_ = key_ == "model";
    open_.push_back(put(std::move(container)));
    return true;
  }
  void close() {
    if (place_ == Place::kTree) open_.pop_back();
    if (--depth_ == 2) place_ = Place::kTree;
  }

  std::vector<Json*> open_;
  std::vector<std::string> parts_;
  std::string key_;
  size_t depth_ = 0;  // open containers, those outside of the tree included
  Place place_ = Place::kTree;
  bool in_model_ = false;
};

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  Handler handler;
  const bool good = Json::sax_parse(text.begin(), text.end(), &handler);
  if (!good || !handler.result.rest.is_object())
    return Error{BANTER_ERROR_CORRUPT, "The tokenizer.json is damaged: " +
                                           (handler.error.empty() ? "it is no JSON object" : handler.error) + "."};
  return std::move(handler.result);
}

Result<nlohmann::json> parse_json(std::string_view text, std::string_view what) {
  Json value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded())
    return Error{BANTER_ERROR_CORRUPT, "The " + std::string(what) + " is damaged: it is no JSON."};
  return value;
}

}  // namespace banter::formats
