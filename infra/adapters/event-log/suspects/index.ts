export { crashEntries } from './crash-notes.ts';
export { InFlightTable, inFlightMemory, rangesInFlight, type SlotName } from './in-flight-table.ts';
