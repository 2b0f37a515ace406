#include "executable.h"

#include "live-objects.h"

#include <numeric>
#include <optional>

namespace dlrm::pjrt {
namespace {

constexpr size_t kFloatBytes = 4;

size_t BytesOf(const Dimensions& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), kFloatBytes,
                         [](size_t bytes, int64_t dimension) { return bytes * static_cast<size_t>(dimension); });
}

}  // namespace

Executable::Executable(std::shared_ptr<Client> client, PJRT_LoadedExecutable* loaded)
    : client_(std::move(client)), loaded_(loaded) {
  PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = loaded_;
  client_->plugin().Check(client_->api().PJRT_LoadedExecutable_GetExecutable(&args), "the executable can't be read");
  executable_ = args.executable;
  Live().executables += 1;
}

Executable::~Executable() {
  // Calls wait for the device, which still needs the program.
  running_.clear();
  Live().executables -= 1;
  const PJRT_Api& api = client_->api();
  auto ignore = [this](PJRT_Error* error) {
    try {
      client_->plugin().Check(error, "an executable can't be freed");
    } catch (const Failure&) {
      // Nobody is left to be told.
    }
  };
  if (executable_ != nullptr) {
    PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = executable_;
    ignore(api.PJRT_Executable_Destroy(&args));
  }
  PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = loaded_;
  ignore(api.PJRT_LoadedExecutable_Destroy(&args));
}

std::shared_ptr<Executable> Executable::Compile(std::shared_ptr<Client> client, const std::string& program,
                                                const std::string& options) {
  static const std::string kMlir = "mlir";
  PJRT_ARGS(PJRT_Program, code);
  code.code = const_cast<char*>(program.data());
  code.code_size = program.size();
  code.format = kMlir.data();
  code.format_size = kMlir.size();
  PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client->get();
  args.program = &code;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  client->plugin().Check(client->api().PJRT_Client_Compile(&args), "the plugin can't compile the program");
  return std::shared_ptr<Executable>(new Executable(std::move(client), args.executable));
}

std::shared_ptr<Executable> Executable::Deserialize(std::shared_ptr<Client> client, const std::string& bytes) {
  PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client->get();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  client->plugin().Check(client->api().PJRT_Executable_DeserializeAndLoad(&args),
                         "the plugin can't load the serialized executable");
  return std::shared_ptr<Executable>(new Executable(std::move(client), args.loaded_executable));
}

std::string Executable::Serialize() const {
  PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_;
  client_->plugin().Check(client_->api().PJRT_Executable_Serialize(&args), "the executable can't be serialized");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr) args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

std::vector<OutputDescription> Executable::Outputs() const {
  PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable_;
  client_->plugin().Check(client_->api().PJRT_Executable_OutputElementTypes(&types), "the results have no types");
  PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, dimensions);
  dimensions.executable = executable_;
  client_->plugin().Check(client_->api().PJRT_Executable_OutputDimensions(&dimensions),
                          "the results have no dimensions");
  std::vector<OutputDescription> outputs;
  const int64_t* next = dimensions.dims;
  for (size_t i = 0; i < dimensions.num_outputs && i < types.num_output_types; i++) {
    const int64_t* end = next + dimensions.dim_sizes[i];
    outputs.push_back({types.output_types[i], Dimensions(next, end)});
    next = end;
  }
  return outputs;
}

std::string Executable::OptimizedProgram(std::string* format) const {
  PJRT_ARGS(PJRT_Program, program);
  PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = executable_;
  args.program = &program;
  // The first call says how long it is, the second writes it.
  client_->plugin().Check(client_->api().PJRT_Executable_OptimizedProgram(&args), "the program can't be read back");
  std::string code(program.code_size, '\0');
  program.code = code.data();
  client_->plugin().Check(client_->api().PJRT_Executable_OptimizedProgram(&args), "the program can't be read back");
  *format = std::string(program.format, program.format_size);
  return code;
}

void Executable::Bind(std::vector<Dimensions> inputs, std::vector<std::shared_ptr<DeviceBuffer>> weights) {
  inputs_.clear();
  for (Dimensions& dimensions : inputs) {
    const size_t bytes = BytesOf(dimensions);
    inputs_.push_back({std::move(dimensions), bytes});
  }
  weights_ = std::move(weights);
  not_donated_.resize(inputs_.size() + weights_.size());
  std::iota(not_donated_.begin(), not_donated_.end(), 0);
  output_bytes_.clear();
  row_major_.clear();
  for (const auto& output : Outputs()) {
    output_bytes_.push_back(BytesOf(output.dimensions));
    std::vector<int64_t> order(output.dimensions.size());
    std::iota(order.rbegin(), order.rend(), 0);
    row_major_.push_back(std::move(order));
  }
  idle_.clear();
}

/** What one call has made. When `Settle` returns, all of it is freed, and the device is done with the caller's memory. */
class Executable::Call {
 public:
  explicit Call(Executable& executable) : executable_(executable) {
    arguments_.assign(executable.inputs_.size(), nullptr);
    for (const auto& weight : executable.weights_) arguments_.push_back(weight->get());
    outputs_.assign(executable.output_bytes_.size(), nullptr);
    input_events_.assign(executable.inputs_.size(), nullptr);
    output_events_.assign(executable.output_bytes_.size(), nullptr);
  }
  ~Call() { Settle(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void Begin(const void* const* inputs, void* const* outputs) {
    in_place_ = 0;
    for (size_t i = 0; i < input_events_.size(); i++) Put(i, inputs[i]);
    Execute();
    for (size_t i = 0; i < outputs_.size(); i++) Get(i, outputs[i]);
  }

  /** Waits for the results. */
  int Await() {
    for (PJRT_Event*& event : output_events_) plugin().Await(std::exchange(event, nullptr), "the program failed");
    return in_place_;
  }

  void Settle() {
    for (PJRT_Event*& event : output_events_) SettleEvent(event);
    for (PJRT_Buffer*& output : outputs_) Free(output);
    // An input that was read in place is done with when it is freed.
    for (size_t i = 0; i < input_events_.size(); i++) Free(arguments_[i]);
    for (PJRT_Event*& event : input_events_) SettleEvent(event);
  }

 private:
  const Plugin& plugin() const { return executable_.client_->plugin(); }
  const PJRT_Api& api() const { return executable_.client_->api(); }

  void Put(size_t i, const void* data) {
    const Client& client = *executable_.client_;
    PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, put);
    put.client = client.get();
    put.data = data;
    put.type = PJRT_Buffer_Type_F32;
    put.dims = executable_.inputs_[i].dimensions.data();
    put.num_dims = executable_.inputs_[i].dimensions.size();
    // The memory is left alone until the call has ended.
    put.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    put.device = client.devices().front();
    plugin().Check(api().PJRT_Client_BufferFromHostBuffer(&put), "an input can't be put on the device");
    arguments_[i] = put.buffer;
    Live().buffers += 1;
    input_events_[i] = put.done_with_host_buffer;
    if (put.done_with_host_buffer != nullptr) Live().events += 1;
    PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, pointer);
    pointer.buffer = put.buffer;
    PJRT_Error* no_pointer = api().PJRT_Buffer_UnsafePointer(&pointer);
    if (no_pointer != nullptr) {
      PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
      destroy.error = no_pointer;
      api().PJRT_Error_Destroy(&destroy);
    } else if (pointer.buffer_pointer == reinterpret_cast<uintptr_t>(data)) {
      in_place_ += 1;
    }
  }

  void Execute() {
    PJRT_ARGS(PJRT_ExecuteOptions, options);
    options.non_donatable_input_indices = executable_.not_donated_.data();
    options.num_non_donatable_input_indices = executable_.not_donated_.size();
    PJRT_Buffer* const* argument_list = arguments_.data();
    PJRT_Buffer** output_list = outputs_.data();
    PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
    args.executable = executable_.loaded_;
    args.options = &options;
    args.argument_lists = &argument_list;
    args.num_devices = 1;
    args.num_args = arguments_.size();
    args.output_lists = &output_list;
    plugin().Check(api().PJRT_LoadedExecutable_Execute(&args), "the program failed");
    Live().buffers += static_cast<int64_t>(outputs_.size());
  }

  void Get(size_t i, void* data) {
    const std::vector<int64_t>& row_major = executable_.row_major_[i];
    PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = row_major.data();
    layout.tiled.minor_to_major_size = row_major.size();
    PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, get);
    get.src = outputs_[i];
    // A device may keep a matrix in another order; the caller's memory is row-major.
    get.host_layout = row_major.size() > 1 ? &layout : nullptr;
    get.dst = data;
    get.dst_size = executable_.output_bytes_[i];
    plugin().Check(api().PJRT_Buffer_ToHostBuffer(&get), "a result can't be fetched");
    output_events_[i] = get.event;
    if (get.event != nullptr) Live().events += 1;
  }

  void SettleEvent(PJRT_Event*& event) {
    try {
      plugin().Await(std::exchange(event, nullptr), "a transfer failed");
    } catch (const Failure&) {
      // The call's own error says it.
    }
  }

  void Free(PJRT_Buffer*& buffer) {
    if (buffer == nullptr) return;
    PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
    args.buffer = std::exchange(buffer, nullptr);
    try {
      plugin().Check(api().PJRT_Buffer_Destroy(&args), "a buffer can't be freed");
      Live().buffers -= 1;
    } catch (const Failure&) {
      // It was the plugin's to free.
    }
  }

  Executable& executable_;
  int in_place_ = 0;
  /** Inputs, which each call sets, then weights. */
  std::vector<PJRT_Buffer*> arguments_;
  std::vector<PJRT_Buffer*> outputs_;
  std::vector<PJRT_Event*> input_events_;
  std::vector<PJRT_Event*> output_events_;
};

void Executable::Begin(const void* const* inputs, void* const* outputs) {
  std::unique_ptr<Call> call;
  if (idle_.empty()) {
    call = std::make_unique<Call>(*this);
  } else {
    call = std::move(idle_.back());
    idle_.pop_back();
  }
  // What it throws, its destructor cleans up.
  call->Begin(inputs, outputs);
  running_.push_back(std::move(call));
}

int Executable::End() {
  if (running_.empty()) throw Failure("invalid_argument", "no call has begun");
  std::unique_ptr<Call> call = std::move(running_.front());
  running_.pop_front();
  const int in_place = call->Await();
  call->Settle();
  idle_.push_back(std::move(call));
  return in_place;
}

}  // namespace dlrm::pjrt
