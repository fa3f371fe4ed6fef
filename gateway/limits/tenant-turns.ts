import { ThreadTurns } from '@tributary/core';

let producerCalls = 0;

/** Counts a call of a producer, which needs the thread at once. */
export function countProducerCall(): void {
  producerCalls += 1;
}

/** At most a quarter of the thread while producers call, else half. */
function turnsBesideProducers(): ThreadTurns {
  let knownCalls = 0;
  return new ThreadTurns({
    elapsed: () => performance.now(),
    isBusy: () => {
      const isBusy = producerCalls !== knownCalls;
      knownCalls = producerCalls;
      return isBusy;
    },
  });
}

/**
 * The turns of organizations on the gateway's thread, for work that depends on what tenants made: filters, contracts, plans
 * and events in the log. One for all routes. Connections and the memory of bodies bound how many calls wait.
 */
export const TENANT_TURNS = turnsBesideProducers();

/** The same for contracts that a producer has checked with its events: console work of others does not delay them. */
export const PRODUCER_TURNS = turnsBesideProducers();
