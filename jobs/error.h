#pragma once

#include "base/error.h"

namespace foretime::jobs {

/// Reports a failure of the queue, a sweep file or an agent. The message never holds a password.
struct JobsError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Reports that Redis cannot be reached, does not answer in time, sends bytes that are not its protocol, or cannot work
/// at the moment: it loads its data, its memory is full, or it is a replica. Agents retry; all other programs give up.
struct RedisUnavailable : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// Reports an answer of Redis that was not read because it is above the limit.
struct RedisAnswerTooLarge : RedisUnavailable {
  using RedisUnavailable::RedisUnavailable;
};

/// Reports that the storage of the embedded Redis failed: a full disk or quota, a read-only file system. The message
/// gives the place, the free space and the space needed. Exit code 74; agents retry.
struct RedisStorageError : ErrorOf<kStorage, RedisUnavailable> {
  using ErrorOf::ErrorOf;
};

/// Reports that Redis answered with an error, because a script failed or a key is damaged. A retry does not help.
struct RedisRefused : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// Reports a refusal of the connection rather than of the call: over a password, a right, the database, or an eviction
/// policy that loses jobs. Agents that were accepted before retry, since somebody may be changing passwords.
struct RedisDenied : RedisRefused {
  using RedisRefused::RedisRefused;
};

/// Reports that the embedded Redis has less data than were written. The message names the missing data and how to
/// continue without them. Exit code 3; running agents retry.
struct RedisDataLost : ErrorOf<kData, RedisDenied> {
  using ErrorOf::ErrorOf;
};

/// Reports a record of the queue that cannot be read: damaged, written by another program, or of a newer format. The
/// message names key and field. Exit code 3.
struct DamagedRecord : ErrorOf<kData, JobsError> {
  using ErrorOf::ErrorOf;
};

/// Reports a failure of the machine: no process or socket can be made, or a disk or store does not answer.
struct NodeError : JobsError {
  using JobsError::JobsError;
};

/// Reports a request that the queue refuses: an unknown id, an ambiguous prefix, a job whose state does not allow the
/// request, a lost lease, or a queue of another protocol.
struct JobRefused : JobsError {
  using JobsError::JobsError;
};

/// Reports an id, or a beginning of one, that no job or sweep of the queue has.
struct JobUnknown : JobRefused {
  using JobRefused::JobRefused;
};

/// Reports a malformed sweep file or submitted job. The message names file, key, value and what was expected.
struct SweepError : JobsError {
  using JobsError::JobsError;
};

}  // namespace foretime::jobs
