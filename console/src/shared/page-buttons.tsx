import { Button, Group } from '@mantine/core';

interface Props {
  /** The cursor of the shown page; undefined on the first. */
  readonly cursor: string | undefined;
  /** The cursor of the next page; undefined on the last. */
  readonly nextCursor: string | undefined;
  /**
   * Whether the shown rows are those of an earlier search, until the new ones arrive. Their next page belongs to that search:
   * the API refuses its cursor with another filter or order.
   */
  readonly isStale: boolean;
  /** Shows the page of a cursor; without one the first. */
  readonly onPage: (cursor: string | undefined) => void;
  /** The name of a page on the buttons. Default: page. */
  readonly noun?: string;
}

/** Buttons to the first and the next page of a list. */
export function PageButtons({ cursor, nextCursor, isStale, onPage, noun = 'page' }: Props) {
  return (
    <Group gap="xs">
      <Button
        size="xs"
        variant="default"
        disabled={cursor === undefined}
        onClick={() => onPage(undefined)}
      >{`First ${noun}`}</Button>
      <Button
        size="xs"
        variant="default"
        disabled={isStale || nextCursor === undefined}
        onClick={() => onPage(nextCursor)}
      >{`Next ${noun}`}</Button>
    </Group>
  );
}
