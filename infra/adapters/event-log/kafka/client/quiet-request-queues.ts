import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';

const scheduleCheck = RequestQueue.prototype.scheduleCheckPendingRequests;

/**
 * kafkajs 2.2.4 looks for requests that wait (because the broker asked for a pause) with a timer that sets itself again
 * whether or not any do, after a negative time, so a thousand times a second and connection: with the partitions of all
 * stages a fifth of a core, idle. A queue in which nothing waits needs no look: what is put into it schedules one.
 */
RequestQueue.prototype.scheduleCheckPendingRequests = function scheduleIfAnyWait(this: RequestQueue): void {
  if (this.pending.length > 0) scheduleCheck.call(this);
};
