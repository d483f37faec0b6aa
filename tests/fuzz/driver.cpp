// The main() of a fuzzer without libFuzzer: replays every file of the corpus, then runs mutations of them for a given
// time. It has no coverage feedback, so it finds less than libFuzzer; it needs no clang, and every build can run it.
//
// usage: fuzz_NAME [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-max_len=BYTES] [-timeout=SECONDS] [-rss_limit_mb=N]
// CORPUS… The options mean what they mean to libFuzzer. When an input crashes the program, hangs or takes too much
// memory, the input is written to crash-…, timeout-… or oom-… in the working directory; running the program on that
// file alone repeats the fault.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) __attribute__((weak));
// Present when a sanitizer's run-time library is linked in: called once it has printed its report.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Bytes = std::vector<uint8_t>;

struct Options {
  double seconds = 0;
  uint64_t runs = 0;
  uint64_t seed = 1;
  size_t max_len = 1 << 16;
  unsigned timeout_seconds = 25;
  long rss_limit_mb = 2048;
  std::vector<std::string> paths;
};

// The input being run, for the signal handlers: they can have no argument. Written before each run, read when it goes
// wrong.
const uint8_t* g_data = nullptr;
size_t g_size = 0;

// splitmix64: small, and the same numbers everywhere, so a seed names a run.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound) but for a bias below 2^-32; 0 when bound is 0.
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(next() % bound); }

 private:
  uint64_t state_;
};

// Only calls that are safe in a signal handler.
void save_input(const char* kind) {
  if (g_data == nullptr) return;
  char name[64];
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < g_size; ++i) hash = (hash ^ g_data[i]) * 0x100000001B3u;
  size_t length = strlen(kind);
  memcpy(name, kind, length);
  for (int shift = 60; shift >= 0; shift -= 4) name[length++] = "0123456789abcdef"[(hash >> shift) & 15];
  name[length] = 0;
  const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  size_t done = 0;
  while (done < g_size) {
    const ssize_t n = write(fd, g_data + done, g_size - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  const char* parts[] = {"\nfuzz driver: the input is kept in ", name, "\n"};
  for (const char* part : parts) (void)!write(2, part, strlen(part));
  g_data = nullptr;
}

void on_death() {
  save_input("crash-");
}
void on_signal(int signal_number) {
  save_input(signal_number == SIGALRM ? "timeout-" : "crash-");
  signal(signal_number, SIG_DFL);
  if (signal_number == SIGALRM) _exit(70);
  raise(signal_number);
}

void install_handlers() {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(on_death);
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
  if (__sanitizer_set_death_callback == nullptr) {  // a sanitizer's own handlers print more, then call on_death
    for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(s, on_signal);
  }
}

void run_one(const Bytes& input, const Options& options) {
  // An exact-size copy, so that reading one byte past the end is seen by the address sanitizer.
  uint8_t* copy = static_cast<uint8_t*>(malloc(input.empty() ? 1 : input.size()));
  if (copy == nullptr) exit(1);
  if (!input.empty()) memcpy(copy, input.data(), input.size());
  g_data = copy;
  g_size = input.size();
  alarm(options.timeout_seconds);
  LLVMFuzzerTestOneInput(copy, input.size());
  alarm(0);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  if (usage.ru_maxrss / 1024 > options.rss_limit_mb) {
    fprintf(stderr, "fuzz driver: %ld MB of memory used, the limit is %ld MB\n", usage.ru_maxrss / 1024,
            options.rss_limit_mb);
    save_input("oom-");
    exit(71);
  }
  g_data = nullptr;
  free(copy);
}

bool read_file(const std::string& path, Bytes& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return true;
}

// Files of a folder in the order of their names, so that a seed means the same on every machine.
bool read_corpus(const std::string& path, std::vector<Bytes>& corpus) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  Bytes bytes;
  if (!S_ISDIR(info.st_mode)) {
    if (!read_file(path, bytes)) return false;
    corpus.push_back(bytes);
    return true;
  }
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return false;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!read_corpus(path + "/" + name, corpus)) return false;
  }
  return true;
}

// Numbers at which readers of lengths, counts and offsets go wrong.
constexpr std::array<uint64_t, 14> kInteresting = {0,
                                                   1,
                                                   0x7F,
                                                   0x80,
                                                   0xFF,
                                                   0x7FFF,
                                                   0xFFFF,
                                                   0x7FFFFFFF,
                                                   0x80000000,
                                                   0xFFFFFFFF,
                                                   0x100000000,
                                                   0x7FFFFFFFFFFFFFFF,
                                                   0x8000000000000000,
                                                   0xFFFFFFFFFFFFFFFF};
// Pieces of the text formats that we read: JSON, templates, UTF-8 at its edges.
constexpr std::array<std::string_view, 24> kWords = {"{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "\"",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "{{",
                                                     "}}",
                                                     "{%",
                                                     "%}",
                                                     "{%- for x in y %}",
                                                     "null",
                                                     "1e9999",
                                                     "-0.0",
                                                     "\x00",
                                                     "\xEF\xBB\xBF",
                                                     "\xF4\x8F\xBF\xBF",
                                                     "\xED\xA0\x80",
                                                     "\xC0\x80",
                                                     "<|im_end|>",
                                                     "%s%n",
                                                     "((((((((",
                                                     "a.b.c|d(e)[f]"};

void overwrite_number(Bytes& data, Random& random) {
  const size_t width = size_t{1} << random.below(4);
  if (data.size() < width) return;
  const size_t at = random.below(data.size() - width + 1);
  uint64_t value = 0;
  if (random.below(2) == 0) {
    value = kInteresting[random.below(kInteresting.size())];
  } else {  // near what stands there: lengths that are wrong by a little
    memcpy(&value, &data[at], width);
    value += random.below(17) - 8;
  }
  memcpy(&data[at], &value, width);  // little-endian hosts only, as are the formats
}

void move_block(Bytes& data, const std::vector<Bytes>& corpus, Random& random) {
  const Bytes& other = random.below(2) == 0 || corpus.empty() ? data : corpus[random.below(corpus.size())];
  if (other.empty()) return;
  const size_t from = random.below(other.size());
  const size_t length = 1 + random.below(std::min<size_t>(other.size() - from, 256));
  const Bytes block(other.begin() + static_cast<ptrdiff_t>(from),
                    other.begin() + static_cast<ptrdiff_t>(from + length));
  const size_t to = random.below(data.size() + 1);
  if (random.below(2) == 0) {
    data.insert(data.begin() + static_cast<ptrdiff_t>(to), block.begin(), block.end());
  } else {
    for (size_t i = 0; i < length && to + i < data.size(); ++i) data[to + i] = block[i];
  }
}

void mutate_once(Bytes& data, const std::vector<Bytes>& corpus, Random& random) {
  switch (random.below(9)) {
    case 0:
      if (!data.empty()) data[random.below(data.size())] ^= static_cast<uint8_t>(1u << random.below(8));
      break;
    case 1:
      if (!data.empty()) data[random.below(data.size())] = static_cast<uint8_t>(random.next());
      break;
    case 2:
      overwrite_number(data, random);
      break;
    case 3:
      data.insert(data.begin() + static_cast<ptrdiff_t>(random.below(data.size() + 1)),
                  static_cast<uint8_t>(random.next()));
      break;
    case 4: {  // remove a block
      if (data.empty()) break;
      const size_t from = random.below(data.size());
      const size_t length = 1 + random.below(std::min<size_t>(data.size() - from, 64));
      data.erase(data.begin() + static_cast<ptrdiff_t>(from), data.begin() + static_cast<ptrdiff_t>(from + length));
      break;
    }
    case 5:
      move_block(data, corpus, random);
      break;
    case 6: {
      const std::string_view word = kWords[random.below(kWords.size())];
      data.insert(data.begin() + static_cast<ptrdiff_t>(random.below(data.size() + 1)), word.begin(), word.end());
      break;
    }
    case 7:  // cut off, as a broken download
      data.resize(random.below(data.size() + 1));
      break;
    default: {  // repeat one piece many times: nesting, long tokens
      if (data.empty()) break;
      const size_t from = random.below(data.size());
      const size_t length = 1 + random.below(std::min<size_t>(data.size() - from, 8));
      const Bytes piece(data.begin() + static_cast<ptrdiff_t>(from),
                        data.begin() + static_cast<ptrdiff_t>(from + length));
      const size_t copies = size_t{1} << random.below(10);
      Bytes repeated;
      for (size_t i = 0; i < copies; ++i) repeated.insert(repeated.end(), piece.begin(), piece.end());
      data.insert(data.begin() + static_cast<ptrdiff_t>(from), repeated.begin(), repeated.end());
    }
  }
}

bool parse_option(std::string_view argument, Options& options) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = argument.substr(0, equals);
  const std::string value(argument.substr(equals + 1));
  char* end = nullptr;
  const unsigned long long number = strtoull(value.c_str(), &end, 10);
  if (value.empty() || *end != 0) return false;
  if (name == "-max_total_time")
    options.seconds = static_cast<double>(number);
  else if (name == "-runs")
    options.runs = number;
  else if (name == "-seed")
    options.seed = number;
  else if (name == "-max_len")
    options.max_len = number;
  else if (name == "-timeout")
    options.timeout_seconds = static_cast<unsigned>(number);
  else if (name == "-rss_limit_mb")
    options.rss_limit_mb = static_cast<long>(number);
  else
    return false;
  return true;
}

uint64_t fuzz(const Options& options, const std::vector<Bytes>& corpus) {
  const auto start = std::chrono::steady_clock::now();
  Random random(options.seed);
  uint64_t runs = 0;
  while (true) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options.seconds > 0 ? elapsed >= options.seconds : runs >= options.runs) return runs;
    if (options.runs > 0 && runs >= options.runs) return runs;
    Bytes data = corpus.empty() ? Bytes{} : corpus[random.below(corpus.size())];
    const size_t mutations = size_t{1} << random.below(6);
    for (size_t i = 0; i < mutations; ++i) mutate_once(data, corpus, random);
    if (data.size() > options.max_len) data.resize(options.max_len);
    run_one(data, options);
    ++runs;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.empty() || argument[0] != '-') {
      options.paths.emplace_back(argument);
    } else if (!parse_option(argument, options)) {
      fprintf(stderr, "fuzz driver: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  install_handlers();
  std::vector<Bytes> corpus;
  for (const std::string& path : options.paths) {
    if (!read_corpus(path, corpus)) {
      fprintf(stderr, "fuzz driver: cannot read %s\n", path.c_str());
      return 2;
    }
  }
  if (corpus.empty()) {
    fprintf(stderr, "fuzz driver: no corpus; name a folder or a file with at least one input\n");
    return 2;
  }
  for (const Bytes& input : corpus) run_one(input, options);
  // Long corpus entries are worth mutating whole.
  for (const Bytes& input : corpus) options.max_len = std::max(options.max_len, input.size());
  const uint64_t runs = fuzz(options, corpus);
  printf("fuzz driver: %zu corpus entries replayed, %llu mutations run, seed %llu, no fault found\n", corpus.size(),
         static_cast<unsigned long long>(runs), static_cast<unsigned long long>(options.seed));
  return 0;
}
