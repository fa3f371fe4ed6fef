export { DEFAULT_LIMITS, type SandboxLimits } from './limits.ts';
export { type IsolatedVmSandbox, type IsolatedVmSandboxOptions, openIsolatedVmSandbox } from './sandbox.ts';
