export { type ConfluentFramingOptions, openConfluentFraming } from './framing.ts';
