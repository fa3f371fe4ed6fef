import { PLAIN_FRAMING } from '@tributary/core';
import { valueFramingConformance } from '../suite/value-framing.conformance.ts';

valueFramingConformance({
  name: 'plain',
  frames: false,
  open: async () => PLAIN_FRAMING,
  dispose: async () => {},
});
