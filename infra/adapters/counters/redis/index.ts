export { holdsCounts, importDocuments, importOffsets, openRedisCounters } from './counters.ts';
