export { openRedisCounters } from './counters.ts';
export {
  differingDocuments,
  holdsCounts,
  importDocuments,
  importOffsets,
} from './import-documents.ts';
