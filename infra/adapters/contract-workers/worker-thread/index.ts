export { openContractWorkers, type WorkerThreadsOptions } from './contract-workers.ts';
