#include "base/file_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace foretime {

LockState try_to_lock(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (TEMP_FAILURE_RETRY(::fcntl(file, F_OFD_SETLK, &whole)) == 0) return LockState::taken;
  return errno == EAGAIN ? LockState::held : LockState::unknown;  // EACCES: a rule of the system forbids it
}

bool is_shared(int file) {
  constexpr std::array<uint32_t, 14> kShared{
      0x6969,     0xFE534D42, 0xFF534D42, 0x0BD00BD0,  // NFS, SMB2, CIFS, Lustre
      0x00C36400, 0x65735546, 0x19830326, 0x47504653,  // Ceph, FUSE, BeeGFS, GPFS
      0x01021997, 0x5346414F, 0x6B414653, 0x7461636F,  // 9P, AFS, kAFS, OCFS2
      0x01161970, 0x786F4256};                         // GFS2, shared folders of VirtualBox
  struct statfs system {};
  return ::fstatfs(file, &system) != 0 ||
         std::ranges::find(kShared, static_cast<uint32_t>(system.f_type)) != kShared.end();
}

}  // namespace foretime
