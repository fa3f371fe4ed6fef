export { crashEntries } from './crash-notes.ts';
export { InHandTable, inHandMemory, rangesInHand, type SlotName } from './in-hand-table.ts';
