/** The next offset of a stage on a partition. */
export interface StagePosition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}
