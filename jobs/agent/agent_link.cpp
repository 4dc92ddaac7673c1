#include "jobs/agent/agent_link.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace foretime::jobs {

void Link::failed(const std::string& what, double now) {
  if (failures_ == 0) {
    since_ = now;
    log_.warn("{}: {}; trying again, jobs go on meanwhile", who_, what);
  }
  const double wait = std::min(longest_, std::ldexp(1.0, std::min(failures_, 10)));
  ++failures_;
  next_ = now + wait * (0.75 + random_unit() / 2);
}

void Link::worked(double now) {
  if (failures_ > 0) log_.info("{}: Redis is back after {:.1f} s", who_, now - since_);
  failures_ = 0;
  next_ = 0;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double random_unit() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

std::string random_hex(size_t digits) {
  std::random_device device;
  std::string text;
  for (size_t i = 0; i < digits; ++i) text += "0123456789abcdef"[device() % 16];
  return text;
}

}  // namespace foretime::jobs
