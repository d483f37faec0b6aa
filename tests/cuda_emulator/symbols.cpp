// Names of functions from the program's own symbol table, and which of its memory is constant.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

struct Range {
  uintptr_t begin, end;
};
using Functions = std::map<uintptr_t, std::string>;  // by address

int note_segments(dl_phdr_info* info, size_t, void* data) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const bool fixed = (header.p_type == PT_LOAD && (header.p_flags & PF_W) == 0) || header.p_type == PT_GNU_RELRO;
    if (fixed) {
      const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
      static_cast<std::vector<Range>*>(data)->push_back({begin, begin + header.p_memsz});
    }
  }
  return 0;
}

/** The load address of the object that holds an address, and the file that it came from. */
struct Object {
  uintptr_t address;
  uintptr_t base = 0;
  std::string file;
};
int find_object(dl_phdr_info* info, size_t, void* data) {
  auto& object = *static_cast<Object*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || object.address - info->dlpi_addr - header.p_vaddr >= header.p_memsz) continue;
    object.base = info->dlpi_addr;
    object.file = info->dlpi_name[0] == '\0' ? "/proc/self/exe" : info->dlpi_name;
    return 1;
  }
  return 0;
}

void read_symbols(Functions& functions, uintptr_t base, const std::byte* file) {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(file);
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[i].sh_offset);
    const auto* const names = reinterpret_cast<const char*>(file + sections[sections[i].sh_link].sh_offset);
    for (size_t s = 0; s < sections[i].sh_size / sizeof(ElfW(Sym)); ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) != STT_FUNC || symbols[s].st_value == 0) continue;
      functions.emplace(base + symbols[s].st_value, names + symbols[s].st_name);
    }
  }
}

Functions functions_around(const void* code) {
  Functions functions;
  Object object = {reinterpret_cast<uintptr_t>(code), 0, {}};
  if (dl_iterate_phdr(find_object, &object) == 0) return functions;
  const int file = open(object.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return functions;
  struct stat status = {};
  if (fstat(file, &status) == 0) {
    void* const bytes = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes != MAP_FAILED) {
      read_symbols(functions, object.base, static_cast<const std::byte*>(bytes));
      munmap(bytes, static_cast<size_t>(status.st_size));
    }
  }
  close(file);
  return functions;
}

}  // namespace

std::string symbol_of(const void* code) {
  const Functions functions = functions_around(code);  // read anew each time: faults are few
  const auto it = functions.find(reinterpret_cast<uintptr_t>(code));
  if (it == functions.end()) {
    char text[32];
    std::snprintf(text, sizeof text, "kernel at %p", code);
    return text;
  }
  int status = -1;
  char* const readable = abi::__cxa_demangle(it->second.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? readable : it->second;
  std::free(readable);
  return name;
}

bool is_constant(uintptr_t address) {
  static const std::vector<Range> constants = [] {
    std::vector<Range> ranges;
    dl_iterate_phdr(note_segments, &ranges);
    return ranges;
  }();
  for (const Range& range : constants) {
    if (address >= range.begin && address < range.end) return true;
  }
  return false;
}

}  // namespace banter::cuda_emulator
