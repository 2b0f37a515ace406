#include "binding-functions.h"
#include "napi-handles.h"

namespace dlrm::pjrt {
namespace {

constexpr size_t kMaxTensors = 64;

/** The memory of each tensor of an array, which must be large enough. */
template <class BytesNeeded>
void ToAddresses(napi_env env, napi_value array, size_t count, void** addresses, BytesNeeded bytes_needed) {
  uint32_t length = 0;
  Ok(env, napi_get_array_length(env, array, &length));
  if (length != count || count > kMaxTensors) {
    throw Failure("invalid_argument", std::to_string(length) + " tensors, expected " + std::to_string(count));
  }
  for (uint32_t i = 0; i < length; i++) {
    napi_value element = nullptr;
    Ok(env, napi_get_element(env, array, i, &element));
    const Memory memory = ToMemory(env, element);
    if (memory.bytes < bytes_needed(i)) {
      throw Failure("invalid_argument", "tensor " + std::to_string(i) + " has " + std::to_string(memory.bytes) +
                                            " bytes, " + std::to_string(bytes_needed(i)) + " are needed");
    }
    addresses[i] = memory.data;
  }
}

/** The tensors of a call, which are the first arguments after the executable. */
struct CallTensors {
  CallTensors(napi_env env, const Arguments& arguments, const Executable& executable) {
    ToAddresses(env, arguments[1], executable.num_inputs(), inputs,
                [&](size_t i) { return executable.InputBytes(i); });
    ToAddresses(env, arguments[2], executable.num_outputs(), outputs,
                [&](size_t i) { return executable.OutputBytes(i); });
  }
  void* inputs[kMaxTensors];
  void* outputs[kMaxTensors];
};

}  // namespace

napi_value Run(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    const auto executable = ToHandle<Executable>(env, arguments[0]);
    const CallTensors tensors(env, arguments, *executable);
    return FromInteger(env, executable->Run(tensors.inputs, tensors.outputs));
  });
}

napi_value Begin(napi_env env, napi_callback_info info) {
  return Guarded(env, [&]() -> napi_value {
    const Arguments arguments(env, info);
    const auto executable = ToHandle<Executable>(env, arguments[0]);
    const CallTensors tensors(env, arguments, *executable);
    executable->Begin(tensors.inputs, tensors.outputs);
    return nullptr;
  });
}

napi_value End(napi_env env, napi_callback_info info) {
  return Guarded(env, [&] {
    const Arguments arguments(env, info);
    return FromInteger(env, ToHandle<Executable>(env, arguments[0])->End());
  });
}

}  // namespace dlrm::pjrt
