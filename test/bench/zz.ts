import { tracingRow } from './tracing-row.ts';
import { drawTable } from './table.ts';
console.log(drawTable([await tracingRow({ rounds: 6, events: 6_000 })]));
process.exit(0);
