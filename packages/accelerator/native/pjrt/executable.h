#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "client.h"

namespace dlrm::pjrt {

/** A result of a program. */
struct OutputDescription {
  PJRT_Buffer_Type type;
  Dimensions dimensions;
};

/**
 * A compiled program on a client's first device. Only one thread may use it at a time. Calls that are begun run one after the other
 * and are ended in the same order: while one runs, the inputs of the next are on their way.
 */
class Executable {
 public:
  /** `program` is MLIR, text or bytecode. */
  static std::shared_ptr<Executable> Compile(std::shared_ptr<Client> client, const std::string& program,
                                             const std::string& options);
  /** What `Serialize` gave, of the same plugin on the same kind of device. */
  static std::shared_ptr<Executable> Deserialize(std::shared_ptr<Client> client, const std::string& bytes);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  std::string Serialize() const;
  std::vector<OutputDescription> Outputs() const;
  /** The program that runs, in a format that `format` gets the name of. */
  std::string OptimizedProgram(std::string* format) const;

  /** Says what arguments follow the weights: float32 tensors of these dimensions. The results are the program's. */
  void Bind(std::vector<Dimensions> inputs, std::vector<std::shared_ptr<DeviceBuffer>> weights);
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return output_bytes_.size(); }
  size_t InputBytes(size_t input) const { return inputs_[input].bytes; }
  size_t OutputBytes(size_t output) const { return output_bytes_[output]; }

  /**
   * Puts the tensors at `inputs` on the device and starts the program, which writes its results to `outputs`. All of that memory
   * is the device's until the call has ended; if this throws, it is not.
   */
  void Begin(const void* const* inputs, void* const* outputs);
  /** Waits for the oldest call that has begun. Throws its error. Returns how many inputs the device read in place. */
  int End();
  /** Both. */
  int Run(const void* const* inputs, void* const* outputs) {
    Begin(inputs, outputs);
    return End();
  }

 private:
  struct Input {
    Dimensions dimensions;
    size_t bytes;
  };
  class Call;

  Executable(std::shared_ptr<Client> client, PJRT_LoadedExecutable* loaded);

  std::shared_ptr<Client> client_;
  PJRT_LoadedExecutable* loaded_;
  PJRT_Executable* executable_ = nullptr;
  std::vector<Input> inputs_;
  std::vector<std::shared_ptr<DeviceBuffer>> weights_;
  std::vector<size_t> output_bytes_;
  /** By output: its dimensions from the last to the first, which is how rows lie in the caller's memory. */
  std::vector<std::vector<int64_t>> row_major_;
  std::vector<int64_t> not_donated_;
  /** From the oldest. */
  std::deque<std::unique_ptr<Call>> running_;
  /** Ended calls, kept for their vectors. */
  std::vector<std::unique_ptr<Call>> idle_;
};

}  // namespace dlrm::pjrt
