export {
  crashEntries,
  InFlightTable,
  inFlightMemory,
  rangesInFlight,
  type SlotName,
} from './suspects.ts';
