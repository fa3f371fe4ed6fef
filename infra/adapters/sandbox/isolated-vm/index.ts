export { DEFAULT_LIMITS, limitsFor, type SandboxLimits } from './protocol.ts';
export { type IsolatedVmSandbox, type IsolatedVmSandboxOptions, openIsolatedVmSandbox } from './sandbox.ts';
