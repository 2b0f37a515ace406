// The functions that JavaScript sees, by the file that has them. Each checks what it is given and moves it; the rest is elsewhere.

#pragma once

#include "napi-values.h"

namespace dlrm::pjrt {

// binding-client.cc

/** openClient(pluginPath, options, environment): a handle. */
napi_value OpenClient(napi_env env, napi_callback_info info);
/** describeClient(client): { apiVersion, platformName, platformVersion, deviceKind, devices, attributes }. */
napi_value DescribeClient(napi_env env, napi_callback_info info);
/** memoryOf(client): { usedBytes, limitBytes } of its first device; -1 for what the plugin does not tell. */
napi_value MemoryOf(napi_env env, napi_callback_info info);
/** upload(client, typedArray, "float32" | "bfloat16", dimensions): a handle. */
napi_value Upload(napi_env env, napi_callback_info info);

// binding-program.cc

/** compile(client, program, compileOptions): a handle. */
napi_value Compile(napi_env env, napi_callback_info info);
/** deserialize(client, bytes): a handle. */
napi_value Deserialize(napi_env env, napi_callback_info info);
/** serialize(executable): its bytes. */
napi_value Serialize(napi_env env, napi_callback_info info);
/** outputsOf(executable): [{ type, dimensions }], types by PJRT's numbers. */
napi_value OutputsOf(napi_env env, napi_callback_info info);
/** optimizedProgram(executable): { format, code }. */
napi_value OptimizedProgram(napi_env env, napi_callback_info info);
/** bind(executable, inputDimensions, weights). */
napi_value Bind(napi_env env, napi_callback_info info);

// binding-call.cc

/** run(executable, inputs, outputs): how many inputs were read in place. Blocks until all is done. */
napi_value Run(napi_env env, napi_callback_info info);
/** begin(executable, inputs, outputs): the tensors, which stay reachable, are the device's until the call is ended. */
napi_value Begin(napi_env env, napi_callback_info info);
/** end(executable): blocks until the oldest call begun is done. How many inputs were read in place. */
napi_value End(napi_env env, napi_callback_info info);

// thread-slice.cc

/** setThreadSlice(micros): what the calling thread's scheduling slice is now, microseconds; 0 where the system takes no wish. */
napi_value SetThreadSlice(napi_env env, napi_callback_info info);

}  // namespace dlrm::pjrt
