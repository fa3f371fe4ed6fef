export { openRedisFunnelStore } from './funnel-store.ts';
export {
  differingFunnelDocuments,
  importFunnelDocuments,
  importFunnelOffsets,
} from './import-documents.ts';
