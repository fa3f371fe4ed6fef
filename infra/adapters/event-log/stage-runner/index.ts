export { crashEntries, InFlightMemory, InFlightTable, type SlotName } from './suspects.ts';
