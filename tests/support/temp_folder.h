// A folder of its own for one test, removed at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace banter::test {

class TempFolder {
 public:
  TempFolder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "banter-test-XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  /** Empty where the system gave no folder. */
  const std::string& path() const { return path_; }
  /** Path of a file (UTF-8 name) in the folder. */
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace banter::test
