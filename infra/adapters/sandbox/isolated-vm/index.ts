export { DEFAULT_LIMITS, limitsFor, type SandboxLimits } from './limits.ts';
export { type IsolatedVmSandbox, type IsolatedVmSandboxOptions, openIsolatedVmSandbox } from './sandbox.ts';
