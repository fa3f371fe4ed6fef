import { describeMachine, enginesOf, type Machine } from '../engines/index.ts';

/** This machine, for what lives no longer than a test. */
export function testMachine(): Machine {
  return describeMachine(process.env, 'brief');
}

/** Engines that a test starts for itself, and stops. */
export function ownEngines(): ReturnType<typeof enginesOf> {
  return enginesOf(testMachine());
}
