import { ActionIcon, Code, CopyButton, Group, Tooltip } from '@mantine/core';
import { CheckIcon, CopyIcon } from '@radix-ui/react-icons';

interface Props {
  readonly value: string;
  /** Names the text for screen readers: `the key`. */
  readonly label: string;
  readonly block?: boolean;
}

/** A text to use elsewhere, with a button that copies it. */
export function CopyField({ value, label, block = false }: Props) {
  return (
    <Group gap="xs" wrap="nowrap" align={block ? 'flex-start' : 'center'}>
      <Code block={block} flex={block ? 1 : undefined} tabIndex={block ? 0 : undefined}>
        {value}
      </Code>
      <CopyButton value={value}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon
              variant="subtle"
              color={copied ? 'teal' : 'gray'}
              aria-label={`Copy ${label}`}
              onClick={copy}
            >
              {copied ? <CheckIcon /> : <CopyIcon />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
