export { arm } from "./arm.ts";
export { ArmPyError } from "./arm-py-error.ts";
export type { ArmPyErrorCode } from "./arm-py-error.ts";
export { pythonArm } from "./python-arm.ts";
export type { PythonArmOptions } from "./python-arm.ts";
export { ensurePythonEnvironment, pythonEnvironment, pythonSourceDir } from "./python-environment.ts";
export type { EnsurePythonOptions, PythonEnvironment, PythonExtra } from "./python-environment.ts";
export { findPython } from "./python-interpreter.ts";
export type { PythonInterpreter, PythonSearch } from "./python-interpreter.ts";
