import { describeMachine, enginesOf, type Machine } from '../engines/index.ts';

/** This machine, for engines that live no longer than a test. */
export function testMachine(): Machine {
  return describeMachine(process.env, 'brief');
}

/** Engines that a test starts and stops itself. */
export function ownEngines(): ReturnType<typeof enginesOf> {
  return enginesOf(testMachine());
}
