package provisioner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func waitingClaim() *corev1.PersistentVolumeClaim {
	class := "slipway-local"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "weights", UID: "7d1c",
			Annotations: map[string]string{annotationProvisioner: Name, annotationSelectedNode: "node"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

func volumesOf(t *testing.T, p Provisioner) []corev1.PersistentVolume {
	t.Helper()
	list, err := p.Client.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestAWaitingClaimGetsADirectoryAndOneVolumeHoweverOftenItIsSeen(t *testing.T) {
	p := Provisioner{Client: fake.NewClientset(), Root: t.TempDir()}
	for range 2 {
		if err := p.Provision(context.Background(), waitingClaim()); err != nil {
			t.Fatal(err)
		}
	}
	volumes := volumesOf(t, p)
	if len(volumes) != 1 || volumes[0].Spec.ClaimRef.Name != "weights" {
		t.Fatalf("volumes: %v", volumes)
	}
	info, err := os.Stat(filepath.Join(p.Root, "pvc-7d1c"))
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Fatalf("directory: %v, %v", info, err)
	}
}

func TestAClaimThatDoesNotWaitForUsIsLeftAlone(t *testing.T) {
	change := map[string]func(*corev1.PersistentVolumeClaim){
		"of another provisioner": func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationProvisioner] = "other" },
		"without a node":         func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, annotationSelectedNode) },
		"bound":                  func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" },
		"being deleted":          func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} },
	}
	for name, edit := range change {
		t.Run(name, func(t *testing.T) {
			p := Provisioner{Client: fake.NewClientset(), Root: t.TempDir()}
			claim := waitingClaim()
			edit(claim)
			if err := p.Provision(context.Background(), claim); err != nil {
				t.Fatal(err)
			}
			if volumes := volumesOf(t, p); len(volumes) != 0 {
				t.Fatalf("volumes: %v", volumes)
			}
		})
	}
}

func TestABlockClaimIsRefusedWithTheRemedy(t *testing.T) {
	p := Provisioner{Client: fake.NewClientset(), Root: t.TempDir()}
	claim := waitingClaim()
	block := corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &block
	err := p.Provision(context.Background(), claim)
	want := "claim team/weights: volumeMode Block is not available here; use Filesystem"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestAReleasedVolumeGoesWithItsDirectory(t *testing.T) {
	p := Provisioner{Client: fake.NewClientset(), Root: t.TempDir()}
	if err := p.Provision(context.Background(), waitingClaim()); err != nil {
		t.Fatal(err)
	}
	volume := volumesOf(t, p)[0]
	volume.Status.Phase = corev1.VolumeReleased
	if err := p.Reclaim(context.Background(), &volume); err != nil {
		t.Fatal(err)
	}
	if volumes := volumesOf(t, p); len(volumes) != 0 {
		t.Fatalf("volumes: %v", volumes)
	}
	if entries, _ := os.ReadDir(p.Root); len(entries) != 0 {
		t.Fatalf("left: %v", entries)
	}
}

func TestAVolumeOutsideTheRootIsNeverRemoved(t *testing.T) {
	p := Provisioner{Client: fake.NewClientset(), Root: t.TempDir()}
	volume := volumeFor(waitingClaim(), t.TempDir())
	volume.Status.Phase = corev1.VolumeReleased
	err := p.Reclaim(context.Background(), volume)
	if err == nil || !strings.Contains(err.Error(), "does not lie in") {
		t.Fatalf("got %v", err)
	}
}
