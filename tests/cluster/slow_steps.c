// Preloaded into a training that is to run on while something else happens: each line of its metrics, a step where
// trainer.log_every is 1, takes a fifth of a second longer, so that it leaves the cores to other tests.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t write(int file, const void* bytes, size_t count) {
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  const char* name = strrchr(path, '/');
  if (name && strcmp(name, "/metrics.jsonl") == 0) usleep(200000);
  return syscall(SYS_write, file, bytes, count);
}
