import { Anchor } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Measure } from './search.ts';

interface Props {
  readonly measure: Measure;
  readonly reason?: string;
  readonly size?: string;
  readonly children: ReactNode;
}

/** A number that opens the events behind it. */
export function NumberButton({ measure, reason, size = 'sm', children }: Props) {
  const navigate = useNavigate({ from: '/w/$workspaceId/overview' });
  return (
    <Anchor
      component="button"
      type="button"
      size={size}
      ta="start"
      style={{ overflowWrap: 'anywhere' }}
      onClick={() =>
        void navigate({
          search: ({ reason: _, ...kept }) => ({ ...kept, measure, ...(reason && { reason }) }),
          resetScroll: false,
        })
      }
    >
      {children}
    </Anchor>
  );
}
