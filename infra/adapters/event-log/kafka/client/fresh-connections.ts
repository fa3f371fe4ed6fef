import Connection from 'kafkajs/src/network/connection.js';

/** A size comes before each answer. */
const SIZE_BYTES = 4;

const { connect } = Connection.prototype;

/**
 * kafkajs 2.2.4 connects the same object again and keeps what it had received of an answer when the connection broke:
 * from then on it takes every answer apart at the wrong place, and no request is ever answered.
 */
Connection.prototype.connect = function connectAfresh(this: Connection): Promise<boolean> {
  if (!this.isConnected()) {
    this.chunks = [];
    this.bytesBuffered = 0;
    this.bytesNeeded = SIZE_BYTES;
  }
  return connect.call(this);
};
