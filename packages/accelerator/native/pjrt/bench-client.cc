// pjrt-client PLUGIN PROGRAM CALLS ROUNDS INPUTS WEIGHTS: runs a program on tensors of ones, with no JavaScript around, and prints the
// microseconds of a call (inputs put, program run, results fetched, all freed), one line a round. INPUTS and WEIGHTS
// are lists of shapes such as 128x13,128x26x128 or "".

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>

#include "executable.h"

namespace {

using dlrm::pjrt::Client;
using dlrm::pjrt::DeviceBuffer;
using dlrm::pjrt::Dimensions;
using dlrm::pjrt::Executable;

std::vector<Dimensions> ParseShapes(const std::string& text) {
  std::vector<Dimensions> shapes;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    std::istringstream shape(item);
    Dimensions dimensions;
    for (std::string dimension; std::getline(shape, dimension, 'x');) dimensions.push_back(std::stoll(dimension));
    shapes.push_back(dimensions);
  }
  return shapes;
}

/** Ones, at an address that lets a device read them in place. */
class Tensor {
 public:
  explicit Tensor(size_t bytes) : data_(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    std::fill_n(data_.get(), bytes / sizeof(float), 1.0F);
  }
  float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
};

size_t BytesOf(const Dimensions& dimensions) {
  size_t bytes = sizeof(float);
  for (const int64_t dimension : dimensions) bytes *= static_cast<size_t>(dimension);
  return bytes;
}

void Measure(char** arguments) {
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int calls = std::atoi(arguments[3]);
  const int rounds = std::atoi(arguments[4]);
  const auto client = Client::Open({arguments[1], {{"cpu_device_count", int64_t{1}}}, {}});
  const std::string one_replica_one_partition("\x1a\x04\x20\x01\x28\x01", 6);
  const auto executable = Executable::Compile(client, program, one_replica_one_partition);
  std::vector<std::shared_ptr<DeviceBuffer>> weights;
  for (const Dimensions& dimensions : ParseShapes(arguments[6])) {
    const Tensor ones(BytesOf(dimensions));
    weights.push_back(
        DeviceBuffer::Upload(client, client->devices().front(), ones.get(), PJRT_Buffer_Type_F32, dimensions));
  }
  executable->Bind(ParseShapes(arguments[5]), weights);
  std::vector<Tensor> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (size_t i = 0; i < executable->num_inputs(); i++) {
    inputs.push_back(tensors.emplace_back(executable->InputBytes(i)).get());
  }
  for (size_t i = 0; i < executable->num_outputs(); i++) {
    outputs.push_back(tensors.emplace_back(executable->OutputBytes(i)).get());
  }
  for (int i = 0; i < calls / 10 + 1; i++) executable->Run(inputs.data(), outputs.data());
  for (int round = 0; round < rounds; round++) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++) executable->Run(inputs.data(), outputs.data());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    std::cout << took.count() / calls << std::endl;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::cerr << "usage: pjrt-client PLUGIN PROGRAM CALLS ROUNDS INPUTS WEIGHTS\n";
    return 2;
  }
  try {
    Measure(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
