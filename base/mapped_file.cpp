#include "base/mapped_file.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

namespace foretime {
namespace {

/// Describes a mapping for the signal handler. Slots are never freed, so that it may read them at any time.
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: free
  uint64_t last = 0;                        // offset in the file at which the mapping ends
  dev_t device = 0;
  ino_t inode = 0;
  std::string path;
};

/// Blocks of slots, found without a lock.
constexpr size_t kBlock = 1024, kBlocks = 4096;
std::array<std::atomic<Slot*>, kBlocks> blocks;
std::mutex slots_mutex;
std::vector<size_t> free_slots;
size_t slot_count = 0;

struct sigaction before {};

Slot& slot_at(size_t index) { return blocks[index / kBlock].load()[index % kBlock]; }

const Slot* slot_of(uintptr_t address) {
  for (const auto& block : blocks) {
    const Slot* slots = block.load();
    if (slots == nullptr) return nullptr;
    for (size_t i = 0; i < kBlock; ++i)
      if (slots[i].end.load() > address && slots[i].begin.load() <= address) return slots + i;
  }
  return nullptr;
}

void say(const char* text) { [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text)); }

/// Async-signal-safe throughout.
void end_process(const Slot& slot) {
  struct stat now {};
  const bool there = ::stat(slot.path.c_str(), &now) == 0;
  const bool same = there && now.st_dev == slot.device && now.st_ino == slot.inode;
  const bool cut = same ? static_cast<uint64_t>(now.st_size) < slot.last : there || errno == ENOENT;
  say("foretime: ");
  say(slot.path.c_str());
  say(!cut   ? ": its storage failed while it was read (an I/O error, or a stale handle); "
               "the same command may work later\n"
      : same ? ": was cut while it was read, expected a file that does not change; start again with the whole file\n"
             : ": was cut and replaced while it was read, expected a file that does not change; start again\n");
  ::_exit(cut ? kData : kStorage);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0 && info->si_addr != nullptr)
    if (const auto* slot = slot_of(reinterpret_cast<uintptr_t>(info->si_addr))) end_process(*slot);
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr)
    return before.sa_sigaction(signal, info, context);
  if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  ::sigaction(SIGBUS, &before, nullptr);
  if (info->si_code <= 0) ::raise(signal);  // else the access is tried again, and ends the process as ever
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before);
  });
}

size_t take_slot() {
  const std::lock_guard lock(slots_mutex);
  if (free_slots.empty()) {
    const size_t block = slot_count / kBlock;
    if (block >= kBlocks) throw std::bad_alloc();
    blocks[block] = new Slot[kBlock];
    for (size_t i = kBlock; i > 0; --i) free_slots.push_back(slot_count + i - 1);
    slot_count += kBlock;
  }
  const size_t index = free_slots.back();
  free_slots.pop_back();
  return index;
}

}  // namespace

MappedFile::MappedFile(int descriptor, const std::filesystem::path& path, uint64_t first, uint64_t last) {
  const uint64_t page = ::sysconf(_SC_PAGESIZE);
  start_ = first / page * page;
  size_ = last - start_;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_file_error(path, "cannot be read: fstat", errno);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, start_);
  if (address == MAP_FAILED) throw_file_error(path, "cannot be mapped: mmap", errno);
  address_ = static_cast<const std::byte*>(address);
  handle_bus_errors();
  slot_ = take_slot();
  Slot& slot = slot_at(slot_);
  slot.path = path.string();
  slot.last = last;
  slot.device = status.st_dev;
  slot.inode = status.st_ino;
  slot.begin = reinterpret_cast<uintptr_t>(address);
  slot.end = slot.begin + size_;
}

void MappedFile::will_need() const { ::madvise(const_cast<std::byte*>(address_), size_, MADV_WILLNEED); }

MappedFile::~MappedFile() {
  slot_at(slot_).end = 0;
  ::munmap(const_cast<std::byte*>(address_), size_);
  const std::lock_guard lock(slots_mutex);
  free_slots.push_back(slot_);
}

}  // namespace foretime
