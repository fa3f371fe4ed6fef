/** The next offset of a stage on a partition. */
export interface StagePosition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/** As stored: whose it is, too. */
export interface StoredPosition extends StagePosition {
  readonly stage: string;
}
