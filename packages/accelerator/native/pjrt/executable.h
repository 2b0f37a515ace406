#pragma once

#include <cstdint>
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

/** A compiled program on a client's first device. Only one thread may use it at a time. */
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
  size_t num_outputs() const { return outputs_.size(); }
  size_t InputBytes(size_t input) const { return inputs_[input].bytes; }
  size_t OutputBytes(size_t output) const { return output_bytes_[output]; }

  /**
   * Runs the program on the tensors at `inputs`, and writes its results to `outputs`. When it returns or throws, the device
   * is done with all of that memory. Returns how many inputs the device read in place.
   */
  int Run(const void* const* inputs, void* const* outputs);

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
  /** Inputs, which each call sets, then weights. */
  std::vector<PJRT_Buffer*> arguments_;
  std::vector<int64_t> not_donated_;
  std::vector<PJRT_Buffer*> outputs_;
  std::vector<PJRT_Event*> input_events_;
  std::vector<PJRT_Event*> output_events_;
};

}  // namespace dlrm::pjrt
