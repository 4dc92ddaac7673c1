#pragma once

#include "base/error.h"

namespace foretime::jobs {

/// A failure of the queue, of a sweep file or of an agent. The message says who, what and what to do; it never holds a
/// password.
struct JobsError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Redis cannot be reached, does not answer in time, or answers something that cannot be Redis. Agents retry on it,
/// everybody else gives up; the message says how to reach or start one.
struct RedisUnavailable : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// An answer of Redis is above the limit, so that it was not read.
struct RedisAnswerTooLarge : RedisUnavailable {
  using RedisUnavailable::RedisUnavailable;
};

/// The storage under the embedded Redis failed: a full disk or quota, a read-only file system. The message says where,
/// how much is free, and how much it takes. Exit code 74; agents retry on it.
struct RedisStorageError : ErrorOf<kStorage, RedisUnavailable> {
  using ErrorOf::ErrorOf;
};

/// Redis was reached and refused: a script that failed, a key that is damaged, or what RedisDenied says. Trying again
/// does not help.
struct RedisRefused : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// A refusal of whoever asks, not of what was asked: over a password, a right, or anything else that a connection
/// begins with (the database, an eviction policy that loses jobs). Whoever was let in before may be let in again: when
/// somebody changes passwords or settings such a refusal passes, and agents retry on it.
struct RedisDenied : RedisRefused {
  using RedisRefused::RedisRefused;
};

/// The embedded Redis has less data than were written. The message names what is missing, and how to continue without
/// it. Exit code 3; agents that run retry on it.
struct RedisDataLost : ErrorOf<kData, RedisDenied> {
  using ErrorOf::ErrorOf;
};

/// A record of the queue that cannot be read: damaged, written by another program, or of a newer format. The message
/// names key and field. Exit code 3.
struct DamagedRecord : ErrorOf<kData, JobsError> {
  using ErrorOf::ErrorOf;
};

/// The machine could not do it, whatever the job is: no process can be started, no socket be made.
struct NodeError : JobsError {
  using JobsError::JobsError;
};

/// What was asked for does not exist or contradicts the job's state: an unknown id, an ambiguous prefix, a job that
/// cannot be retried.
struct JobRefused : JobsError {
  using JobsError::JobsError;
};

/// A sweep file or a submitted job that is malformed; names file, key, value and what was expected.
struct SweepError : JobsError {
  using JobsError::JobsError;
};

}  // namespace foretime::jobs
