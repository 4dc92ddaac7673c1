#pragma once

#include <string>

#include "base/error.h"

namespace foretime::jobs {

/// A failure of the queue, of a sweep file or of an agent. The message says who, what and what to do; it never holds a
/// password.
class JobsError : public Error {
 public:
  explicit JobsError(const std::string& message) : Error(kUsage, message) {}

 protected:
  JobsError(int exit_code, const std::string& message) : Error(exit_code, message) {}
};

/// Redis cannot be reached, does not answer in time, or answers something that cannot be Redis. Agents retry on it,
/// everybody else gives up; the message says how to reach or start one.
class RedisUnavailable : public JobsError {
 public:
  explicit RedisUnavailable(const std::string& message) : JobsError(kComm, message) {}
};

/// Redis was reached and refused: wrong password, a right that is missing, an eviction policy that loses jobs, a script
/// that failed. Trying again does not help.
class RedisRefused : public JobsError {
 public:
  explicit RedisRefused(const std::string& message) : JobsError(kComm, message) {}
};

/// What was asked for does not exist or contradicts the job's state: an unknown id, an ambiguous prefix, a job that
/// cannot be retried.
class JobRefused : public JobsError {
 public:
  explicit JobRefused(const std::string& message) : JobsError(message) {}
};

/// A sweep file or a submitted job that is malformed; names file, key, value and what was expected.
class SweepError : public JobsError {
 public:
  explicit SweepError(const std::string& message) : JobsError(message) {}
};

}  // namespace foretime::jobs
