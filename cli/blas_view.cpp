#include "cli/blas_view.h"

#include <sstream>

namespace foretime::cli {

std::string mapped_blas(const std::string& maps) {
  std::istringstream lines(maps);
  std::string mkl;
  for (std::string text; std::getline(lines, text);) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) continue;
    const std::string file = text.substr(slash), name = file.substr(file.rfind('/') + 1);
    if (name.starts_with("libcublas") || name.starts_with("libnvblas")) continue;
    if (file.find("blas") != std::string::npos) return file;
    if (mkl.empty() && file.find("mkl") != std::string::npos) mkl = file;
  }
  return mkl;
}

}  // namespace foretime::cli
