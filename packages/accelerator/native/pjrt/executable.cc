#include "executable.h"

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
}

Executable::~Executable() {
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
  arguments_.assign(inputs_.size(), nullptr);
  for (const auto& weight : weights_) arguments_.push_back(weight->get());
  not_donated_.resize(arguments_.size());
  std::iota(not_donated_.begin(), not_donated_.end(), 0);
  output_bytes_.clear();
  row_major_.clear();
  for (const auto& output : Outputs()) {
    output_bytes_.push_back(BytesOf(output.dimensions));
    std::vector<int64_t> order(output.dimensions.size());
    std::iota(order.rbegin(), order.rend(), 0);
    row_major_.push_back(std::move(order));
  }
  outputs_.assign(output_bytes_.size(), nullptr);
  input_events_.assign(inputs_.size(), nullptr);
  output_events_.assign(output_bytes_.size(), nullptr);
}

/** What one call has made: freed, and the device done with the caller's memory, when it goes out of scope. */
class Executable::Call {
 public:
  explicit Call(Executable& executable) : executable_(executable) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  ~Call() {
    for (PJRT_Event*& event : executable_.output_events_) Settle(event);
    for (PJRT_Buffer*& output : executable_.outputs_) Free(output);
    // An input that was read in place is done with when it is freed.
    for (size_t i = 0; i < executable_.inputs_.size(); i++) Free(executable_.arguments_[i]);
    for (PJRT_Event*& event : executable_.input_events_) Settle(event);
  }

 private:
  void Settle(PJRT_Event*& event) {
    try {
      executable_.client_->plugin().Await(std::exchange(event, nullptr), "a transfer failed");
    } catch (const Failure&) {
      // The call's own error says it.
    }
  }

  void Free(PJRT_Buffer*& buffer) {
    if (buffer == nullptr) return;
    PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
    args.buffer = std::exchange(buffer, nullptr);
    try {
      executable_.client_->plugin().Check(executable_.client_->api().PJRT_Buffer_Destroy(&args), "a buffer can't be freed");
    } catch (const Failure&) {
      // It was the plugin's to free.
    }
  }

  Executable& executable_;
};

int Executable::Run(const void* const* inputs, void* const* outputs) {
  const Plugin& plugin = client_->plugin();
  const PJRT_Api& api = client_->api();
  Call call(*this);
  int in_place = 0;
  for (size_t i = 0; i < inputs_.size(); i++) {
    PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, put);
    put.client = client_->get();
    put.data = inputs[i];
    put.type = PJRT_Buffer_Type_F32;
    put.dims = inputs_[i].dimensions.data();
    put.num_dims = inputs_[i].dimensions.size();
    // The memory is left alone until Call is done with it.
    put.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    put.device = client_->devices().front();
    plugin.Check(api.PJRT_Client_BufferFromHostBuffer(&put), "an input can't be put on the device");
    arguments_[i] = put.buffer;
    input_events_[i] = put.done_with_host_buffer;
    PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, pointer);
    pointer.buffer = put.buffer;
    PJRT_Error* no_pointer = api.PJRT_Buffer_UnsafePointer(&pointer);
    if (no_pointer != nullptr) {
      PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
      destroy.error = no_pointer;
      api.PJRT_Error_Destroy(&destroy);
    } else if (pointer.buffer_pointer == reinterpret_cast<uintptr_t>(inputs[i])) {
      in_place += 1;
    }
  }

  PJRT_ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = not_donated_.data();
  options.num_non_donatable_input_indices = not_donated_.size();
  PJRT_Buffer* const* argument_list = arguments_.data();
  PJRT_Buffer** output_list = outputs_.data();
  PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = loaded_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments_.size();
  args.output_lists = &output_list;
  plugin.Check(api.PJRT_LoadedExecutable_Execute(&args), "the program failed");

  for (size_t i = 0; i < outputs_.size(); i++) {
    PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = row_major_[i].data();
    layout.tiled.minor_to_major_size = row_major_[i].size();
    PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, get);
    get.src = outputs_[i];
    // A device may keep a matrix in another order; the caller's memory is row-major.
    get.host_layout = row_major_[i].size() > 1 ? &layout : nullptr;
    get.dst = outputs[i];
    get.dst_size = output_bytes_[i];
    plugin.Check(api.PJRT_Buffer_ToHostBuffer(&get), "a result can't be fetched");
    output_events_[i] = get.event;
  }
  for (PJRT_Event*& event : output_events_) plugin.Await(std::exchange(event, nullptr), "the program failed");
  return in_place;
}

}  // namespace dlrm::pjrt
