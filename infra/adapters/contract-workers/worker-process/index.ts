export { type ContractWorkersOptions, openContractWorkers } from './contract-workers.ts';
