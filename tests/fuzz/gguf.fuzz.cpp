// GGUF headers from hostile bytes. A further "GGUF" in the input begins the next part of a split set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/tensor_type.h"

namespace {

using banter::ByteSource;
using banter::Error;
using banter::Result;
using namespace banter::formats;

/** As a host's I/O callbacks: no mapping. */
class Unmapped final : public ByteSource {
 public:
  explicit Unmapped(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) override {
    // The parser must never ask for what is not there: a host's callback may not be as careful.
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) std::abort();
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }
  const std::byte* map() override { return nullptr; }
  const std::string& name() const override { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_ = "fuzz";
};

std::vector<std::span<const std::byte>> parts_of(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  std::vector<std::span<const std::byte>> parts;
  size_t begin = 0;
  while (parts.size() < 8) {
    const size_t next = text.find("GGUF", begin + 1);
    parts.push_back(input.subspan(begin, std::min(next, input.size()) - begin));
    if (next >= input.size()) break;
    begin = next;
  }
  return parts;
}

void require(bool condition) {
  if (!condition) std::abort();
}

/** Uses what was opened as the engine would: every value, and the bytes of every tensor. */
void use(const Gguf& file, std::span<const std::span<const std::byte>> parts) {
  for (const auto& [key, value] : file.metadata()) {
    require(file.find(key) == &value);
    (void)file.get_uint(key);
    (void)file.get_float(key);
    (void)file.get_bool(key);
  }
  std::vector<std::byte> scratch;
  std::vector<float> values;
  for (const GgufTensor& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    require(tensor.part < parts.size() && tensor.offset + tensor.bytes <= parts[tensor.part].size());
    const auto data = file.read(tensor, scratch);
    const TypeTraits* traits = type_traits(tensor.type);
    require(traits == nullptr || static_cast<bool>(data));
    if (traits == nullptr) continue;
    require(data->size() == tensor.elements() / traits->block_elements * traits->block_bytes);
    values.resize(tensor.elements());
    dequantize(traits->type, data->data(), values.data(), values.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = parts_of(std::as_bytes(std::span(data, size)));
  const auto open = [&](auto&& make_source) {
    return Gguf::open(make_source(parts[0]), [&](uint32_t index, uint32_t) -> Result<std::shared_ptr<ByteSource>> {
      if (index >= parts.size()) return Error{BANTER_ERROR_FILE_NOT_FOUND, "no such part."};
      return make_source(parts[index]);
    });
  };
  using Source = std::shared_ptr<ByteSource>;
  const auto mapped = open([](auto bytes) { return banter::borrow_memory(bytes, "fuzz"); });
  const auto unmapped = open([](auto bytes) -> Source { return std::make_shared<Unmapped>(bytes); });
  require(static_cast<bool>(mapped) == static_cast<bool>(unmapped));
  if (mapped) {
    use(*mapped, parts);
    use(*unmapped, parts);
  } else {
    require(mapped.error().code == unmapped.error().code && !mapped.error().message.empty());
  }
  return 0;
}
