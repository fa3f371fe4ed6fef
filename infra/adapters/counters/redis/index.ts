export { openRedisCounters } from './counters.ts';
export {
  holdsCounts,
  importDocuments,
  importOffsets,
} from './import-documents.ts';
