export { openSqliteFunnelStore } from './funnel-store.ts';
