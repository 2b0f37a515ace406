#pragma once

#include <atomic>
#include <cstdint>

namespace dlrm::pjrt {

/** What this process has of plugins and has not given back: a leak shows here long before it shows in its memory. */
struct LiveObjects {
  std::atomic<int64_t> clients{0};
  std::atomic<int64_t> executables{0};
  /** Weights, inputs and results. */
  std::atomic<int64_t> buffers{0};
  std::atomic<int64_t> events{0};
};

inline LiveObjects& Live() {
  static LiveObjects live;
  return live;
}

}  // namespace dlrm::pjrt
