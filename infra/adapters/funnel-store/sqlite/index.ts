export { openSqliteFunnelStore } from './funnel-store.ts';
export { openStoredFunnel } from './stored-funnel.ts';
