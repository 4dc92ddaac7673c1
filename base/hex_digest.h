#pragma once

#include <array>
#include <string>
#include <string_view>

#include <openssl/evp.h>

#include "base/error.h"

namespace foretime {

/// Returns the digest of `text` as lower-case hexadecimal digits. `algorithm` is libcrypto's name, such as "SHA256".
/// Throws Error if libcrypto does not have the algorithm. Users of this header link OpenSSL::Crypto.
inline std::string hex_digest(const char* algorithm, std::string_view text) {
  const EVP_MD* digest_by = EVP_get_digestbyname(algorithm);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (digest_by == nullptr || EVP_Digest(text.data(), text.size(), digest.data(), &size, digest_by, nullptr) != 1)
    throw Error(kInternal, std::string(algorithm) + " is not available from libcrypto");
  std::string hex;
  hex.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest.at(i) >> 4];
    hex += "0123456789abcdef"[digest.at(i) & 15];
  }
  return hex;
}

}  // namespace foretime
