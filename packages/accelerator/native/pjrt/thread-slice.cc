#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "binding-functions.h"

namespace dlrm::pjrt {
namespace {

#if defined(__linux__) && defined(SYS_sched_setattr)

/** As the kernel's `struct sched_attr` was first; C libraries have not all of them. */
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

constexpr uint32_t kOther = 0;

/** The calling thread's slice in nanoseconds when it was asked for so many; 0 where there is none to ask for. */
int64_t SetSlice(uint64_t nanoseconds) {
  SchedAttributes attributes{};
  // 0: the calling thread.
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return 0;
  if (attributes.policy != kOther) return 0;
  attributes.size = sizeof(attributes);
  attributes.flags = 0;
  attributes.runtime = nanoseconds;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) return 0;
  attributes = {};
  // Kernels before 6.12 take it for nothing, and say 0.
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return 0;
  return static_cast<int64_t>(attributes.runtime);
}

#else

int64_t SetSlice(uint64_t) { return 0; }

#endif

}  // namespace

napi_value SetThreadSlice(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    uint32_t micros = 0;
    Ok(env, napi_get_value_uint32(env, arguments[0], &micros));
    return FromInteger(env, SetSlice(uint64_t{micros} * 1000) / 1000);
  });
}

}  // namespace dlrm::pjrt
